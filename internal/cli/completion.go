package cli

import (
	"context"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"proviso.dev/proviso/internal/engine/verbs"
)

// completionTime bounds what a shell waits for.
const completionTime = 2 * time.Second

// completeQuestion completes VERB TYPE [NAME].
func (c *client) completeQuestion(cmd *cobra.Command, args []string, typed string) ([]string, cobra.ShellCompDirective) {
	switch len(args) {
	case 0:
		return startingWith(verbs.All(), typed), cobra.ShellCompDirectiveNoFileComp
	case 1:
		return c.completeResources(cmd, nil, typed)
	case 2:
		t, err := c.parseTarget(args[1:], "")
		if err != nil || t.path != "" || t.resource.Resource == all {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		return startingWith(c.names(t), typed), cobra.ShellCompDirectiveNoFileComp
	}
	return nil, cobra.ShellCompDirectiveNoFileComp
}

// completeResources completes one resource.
func (c *client) completeResources(_ *cobra.Command, args []string, typed string) ([]string, cobra.ShellCompDirective) {
	if len(args) > 0 {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	return startingWith(c.resourceNames(), typed), cobra.ShellCompDirectiveNoFileComp
}

func (c *client) completeNamespaces(_ *cobra.Command, _ []string, typed string) ([]string, cobra.ShellCompDirective) {
	return startingWith(c.list("/api/v1/namespaces"), typed), cobra.ShellCompDirectiveNoFileComp
}

// resourceNames are the served resources, with their group unless it is the core group.
func (c *client) resourceNames() []string {
	discovery, err := c.config.ToDiscoveryClient()
	if err != nil {
		return nil
	}
	lists, _ := discovery.ServerPreferredResources() // what can be had is good enough
	var found []string
	for _, list := range lists {
		group, _, _ := strings.Cut(list.GroupVersion, "/")
		for _, r := range list.APIResources {
			name := r.Name
			if strings.Contains(list.GroupVersion, "/") {
				name += "." + group
			}
			if !strings.Contains(r.Name, "/") {
				found = append(found, name)
			}
		}
	}
	slices.Sort(found)
	return slices.Compact(found)
}

// names are those of the objects of a resource, if the caller may list them.
func (c *client) names(t target) []string {
	path := "/api/" + t.resource.Version
	if t.resource.Group != "" {
		path = "/apis/" + t.resource.Group + "/" + t.resource.Version
	}
	if t.namespaced {
		namespace, err := c.namespace()
		if err != nil {
			return nil
		}
		path += "/namespaces/" + namespace
	}
	return c.list(path + "/" + t.resource.Resource)
}

func (c *client) list(path string) []string {
	ctx, cancel := context.WithTimeout(context.Background(), completionTime)
	defer cancel()
	var list metav1.PartialObjectMetadataList
	if c.get(ctx, path, map[string]string{"limit": "500"}, &list) != nil {
		return nil
	}
	var found []string
	for _, item := range list.Items {
		found = append(found, item.Name)
	}
	return found
}

func startingWith(words []string, typed string) []string {
	var found []string
	for _, w := range words {
		if strings.HasPrefix(w, typed) {
			found = append(found, w)
		}
	}
	return found
}
