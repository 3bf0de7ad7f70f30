package lint

import (
	"fmt"

	auditv1alpha1 "proviso.dev/proviso/api/auditregistration/v1alpha1"
	policyv1alpha1 "proviso.dev/proviso/api/policy/v1alpha1"
	"proviso.dev/proviso/internal/engine/auditrule"
)

// sinks remarks on sinks that record nothing and classes that nobody refers to.
func (c *checker) sinks() {
	classes := map[string]bool{}
	for _, class := range c.Classes {
		classes[class.Name] = true
	}
	used := map[string]bool{}
	for _, sink := range c.Sinks {
		object := Object{auditv1alpha1.SchemeGroupVersion.Group, "AuditSink", "", sink.Name}
		c.sink(object, sink.Spec.Policy, sink.Spec.Webhook != nil, classes, used)
	}
	for _, sink := range c.NamespaceSinks {
		object := Object{policyv1alpha1.GroupName, "NamespaceAuditSink", sink.Namespace, sink.Name}
		c.sink(object, sink.Spec.Policy, sink.Spec.Webhook != nil, classes, used)
	}
	served := c.servedResources()
	for _, class := range c.Classes {
		for _, u := range auditrule.FindUnserved(class, served) {
			c.say(Remark{Code: codeUnserved, Severity: Warning, Object: Object{auditv1alpha1.SchemeGroupVersion.Group, "AuditClass", "", class.Name}, Path: u.Path, Message: u.Message})
		}
		if !used[class.Name] {
			c.say(Remark{Code: codeSink, Severity: Warning, Object: Object{auditv1alpha1.SchemeGroupVersion.Group, "AuditClass", "", class.Name}, Path: []any{"metadata", "name"},
				Message: "no sink refers to this class", Do: "Refer to it in a sink, or delete it."})
		}
	}
}

// sink remarks on one that records nothing, and notes the classes that it uses.
func (c *checker) sink(object Object, policy auditv1alpha1.Policy, sends bool, classes, used map[string]bool) {
	records := policy.Level != auditv1alpha1.LevelNone && policy.Level != ""
	for i, rule := range policy.Rules {
		used[rule.WithAuditClass] = true
		records = records || rule.Level != auditv1alpha1.LevelNone
		if !classes[rule.WithAuditClass] {
			c.say(Remark{Code: codeSink, Severity: Warning, Object: object, Path: []any{"spec", "policy", "rules", i, "withAuditClass"},
				Message: fmt.Sprintf("the sink stays inactive: there is no audit class %s", rule.WithAuditClass), Do: "Give the class too, or correct its name."})
		}
	}
	if !sends {
		c.say(Remark{Code: codeSink, Severity: Warning, Object: object, Path: []any{"spec"}, Message: "the sink sends its events nowhere: it has no webhook", Do: "Add spec.webhook."})
	}
	if !records {
		c.say(Remark{Code: codeSink, Severity: Warning, Object: object, Path: []any{"spec", "policy"}, Message: "the sink records nothing: its level is None everywhere"})
	}
}

// servedResources are the resources that requests can be for.
func (c *checker) servedResources() (all []auditrule.ServedResource) {
	for _, r := range c.Resources {
		if !r.Virtual {
			all = append(all, auditrule.ServedResource{Group: r.Group, Resource: r.Resource, Subresource: r.Subresource, Namespaced: r.Namespaced})
		}
	}
	return all
}
