// Command clientexample is the program of docs/how-to/go-client.md, so that it is compiled.
package main

import (
	"context"
	"fmt"
	"log"
	"os"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/tools/clientcmd"

	authz "proviso.dev/proviso/api/authorization/v1alpha1"
	authzapply "proviso.dev/proviso/client/applyconfiguration/authorization/v1alpha1"
	policyapply "proviso.dev/proviso/client/applyconfiguration/policy/v1alpha1"
	"proviso.dev/proviso/client/clientset/versioned"
	"proviso.dev/proviso/client/informers/externalversions"
)

func main() {
	ctx := context.Background()
	config, err := clientcmd.BuildConfigFromFlags("", os.Getenv("KUBECONFIG"))
	if err != nil {
		log.Fatal(err)
	}
	client := versioned.NewForConfigOrDie(config)

	// Server-side apply: what is not there is made, what is there keeps the fields of others.
	reader := authzapply.Role("reader", "shop").
		WithRules(policyapply.PolicyRule().WithVerbs("get", "list").WithResourceKinds("pods"))
	readers := authzapply.RoleBinding("readers", "shop").
		WithRoleRef(authzapply.RoleRef().WithNamespace("shop").WithName("reader")).WithUserNames("ruth")
	mine := metav1.ApplyOptions{FieldManager: "onboarding"}
	if _, err := client.AuthorizationV1alpha1().Roles("shop").Apply(ctx, reader, mine); err != nil {
		log.Fatal(err)
	}
	if _, err := client.AuthorizationV1alpha1().RoleBindings("shop").Apply(ctx, readers, mine); err != nil {
		log.Fatal(err)
	}

	// An informer lists and then watches. Its lister answers from memory.
	factory := externalversions.NewSharedInformerFactory(client, 0)
	roles := factory.Authorization().V1alpha1().Roles()
	_, err = roles.Informer().AddEventHandler(cache.ResourceEventHandlerFuncs{
		UpdateFunc: func(_, changed any) { fmt.Println(changed.(*authz.Role).Name) },
	})
	if err != nil {
		log.Fatal(err)
	}
	factory.Start(ctx.Done())
	factory.WaitForCacheSync(ctx.Done())
	select {}
}
