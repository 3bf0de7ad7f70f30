package main

import (
	"context"
	"encoding/json"
	"fmt"

	"proviso.dev/proviso/bench/live"
)

// useSystems puts every system to use: edgar's rights come from policies and depend on the label of what they write, a
// deny rule looks at what dora deletes, the label env is protected where its value is prod, the field data.locked may
// be changed only with a permission of its own, and a sink wants every request.
func useSystems(ctx context.Context, admin *live.Client, sink string) error {
	others := []string{"edgar", "dora"}
	for i := range 100 {
		others = append(others, userName(i))
	}
	users, err := json.Marshal(others)
	if err != nil {
		return err
	}
	type object struct{ path, text string }
	var all []object
	for _, ns := range []string{workspace, library} {
		in := "namespaces/" + ns + "/"
		all = append(all,
			object{ourPath + in + "policies", `{"metadata": {"name": "default"}}`},
			object{ourPath + in + "policybindings", fmt.Sprintf(`{"metadata": {"name": %q}}`, ns)},
			object{viewsPath + in + "roles", `{"metadata": {"name": "writers"}, "rules": [
				{"verbs": ["get", "list", "delete"], "resourceKinds": ["ConfigMap"]},
				{"verbs": ["create", "update"], "resourceKinds": ["ConfigMap"], "where": "resource.metadata.labels['team'] == 'a'"}]}`},
			object{viewsPath + in + "roles", `{"metadata": {"name": "careful"}, "rules": [
				{"deny": true, "verbs": ["delete"], "resourceKinds": ["ConfigMap"], "attributeRestrictions": {"labelsContain": ["protected"]}}]}`},
			object{viewsPath + in + "rolebindings", fmt.Sprintf(`{"metadata": {"name": "careful"}, "roleRef": {"namespace": %q, "name": "careful"}, "userNames": ["dora"]}`, ns)},
			object{viewsPath + in + "rolebindings", fmt.Sprintf(`{"metadata": {"name": "writers"}, "roleRef": {"namespace": %q, "name": "writers"}, "userNames": %s}`, ns, users)})
	}
	all = append(all,
		object{rbacPath + "clusterroles", `{"metadata": {"name": "release-managers"}}`},
		object{ourPath + "clusterprotectedattributes", `{"metadata": {"name": "env-prod"}, "attributeKind": "Label", "attributeName": "env", "protectedValues": ["prod"],
			"roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "release-managers"}}`},
		object{ourPath + "fieldpermissions", `{"metadata": {"name": "locked"}, "spec": {"resources": ["configmaps"], "field": ".data[locked]",
			"permission": "example.com/locked", "exclusive": true}}`},
		object{"/apis/auditregistration.k8s.io/v1alpha1/auditsinks", fmt.Sprintf(`{"metadata": {"name": "all"}, "spec": {"policy": {"level": "Metadata"},
			"webhook": {"throttle": {"qps": 10000, "burst": 10000}, "clientConfig": {"url": %q}}}}`, sink)})
	for _, o := range all {
		if err := admin.Must(ctx, "POST", o.path, []byte(o.text)); err != nil {
			return err
		}
	}
	return nil
}
