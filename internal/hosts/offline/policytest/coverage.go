package policytest

import (
	"fmt"
	"slices"
	"sync"

	rbacv1 "k8s.io/api/rbac/v1"

	authz "proviso.dev/proviso/api/authorization/v1alpha1"
	policyv1alpha1 "proviso.dev/proviso/api/policy/v1alpha1"
	"proviso.dev/proviso/internal/features/policies"
	"proviso.dev/proviso/internal/hosts/offline"
	"proviso.dev/proviso/internal/state/snapshot"
)

// Coverage counts the rules that decided a case. A nil one counts nothing.
type Coverage struct {
	Rules   int      `json:"rules"`
	Decided int      `json:"decided"`
	Percent int      `json:"percent"`
	Never   []string `json:"never,omitempty"`

	mu   sync.Mutex
	hits map[string]bool // rule → it decided
}

func ruleKey(namespace, name string, index int) string {
	if namespace != "" {
		name = namespace + "/" + name
	}
	return fmt.Sprintf("%s rule %d", name, index)
}

// rulesOf adds the rules that a host has read, without those that every server has.
func (c *Coverage) rulesOf(host *offline.Host, file string) error {
	if c.hits == nil {
		c.hits = map[string]bool{}
	}
	add := func(namespace, name string, rules int) {
		for i := range rules {
			key := ruleKey(namespace, name, i)
			c.hits[key] = c.hits[key] || false
		}
	}
	defaults := policies.DefaultRoles()
	for _, kind := range snapshot.Kinds() {
		objects, err := host.Files().Objects(kind)
		if err != nil {
			return fmt.Errorf("%s: %w", file, err)
		}
		if objects == nil {
			continue
		}
		for _, obj := range objects.GetIndexer().List() {
			switch o := obj.(type) {
			case *policyv1alpha1.Policy:
				for name, role := range o.Roles {
					if _, every := defaults[name]; !every {
						add(o.Namespace, name, len(role.Rules))
					}
				}
			case *rbacv1.Role:
				add(o.Namespace, o.Name, len(o.Rules))
			case *rbacv1.ClusterRole:
				add("", o.Name, len(o.Rules))
			}
		}
	}
	return nil
}

func (c *Coverage) decided(rule authz.RuleTrace) {
	if c == nil {
		return
	}
	key := ruleKey(rule.Role.Namespace, rule.Role.Name, int(rule.RuleIndex))
	c.mu.Lock()
	defer c.mu.Unlock()
	if _, known := c.hits[key]; known {
		c.hits[key] = true
	}
}

// count settles the figures.
func (c *Coverage) count() {
	c.Rules, c.Decided, c.Never = len(c.hits), 0, nil
	for key, hit := range c.hits {
		if hit {
			c.Decided++
		} else {
			c.Never = append(c.Never, key)
		}
	}
	slices.Sort(c.Never)
	c.Percent = 100
	if c.Rules > 0 {
		c.Percent = 100 * c.Decided / c.Rules
	}
}
