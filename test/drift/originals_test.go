package drift

import (
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

const (
	kube       = "k8s.io/kubernetes"
	apiserver  = "k8s.io/apiserver"
	aggregator = "k8s.io/kube-aggregator"
	extensions = "k8s.io/apiextensions-apiserver"
)

// original is a declaration of upstream that code of ours follows, and what to look at when it changes.
type original struct{ module, dir, name, recheck string }

// originals is the list of what Proviso mirrors or relies on. What the compiler already checks does not belong here.
var originals = []original{
	// The command: flags, defaults, logging, order of completion.
	{kube, "cmd/kube-apiserver/app", "NewAPIServerCommand", "how internal/hosts/apiserver builds the serve command: flags, logging, feature gates, signal handling"},
	{kube, "cmd/kube-apiserver/app", "Run", "the order config → complete → chain → prepare → run in internal/hosts/apiserver"},

	// The sequence of constructors that internal/hosts/apiserver calls in upstream's order.
	{kube, "cmd/kube-apiserver/app", "NewConfig", "our configuration sequence in internal/hosts/apiserver: same calls, same order, same arguments"},
	{kube, "cmd/kube-apiserver/app", "Config.Complete", "our completion of the server configurations in internal/hosts/apiserver"},
	{kube, "cmd/kube-apiserver/app", "CreateServerChain", "our server chain in internal/hosts/apiserver: delegation order, not-found handler, CRD informer"},
	{kube, "cmd/kube-apiserver/app", "CreateKubeAPIServerConfig", "what of it runs before and after our authorizer and enforcer are put in"},
	{kube, "cmd/kube-apiserver/app", "var apiVersionPriorities", "our table of API version priorities: a group-version that is missing there is silently a 404"},
	{kube, "pkg/controlplane/apiserver", "DefaultGenericAPIServicePriorities", "our table of API version priorities"},
	{kube, "pkg/controlplane/apiserver", "BuildGenericConfig", "when the authorizer is built and who copies it; where the audit options are applied"},
	{kube, "pkg/controlplane/apiserver", "BuildAuthorizer", "which authorizers the configured modes produce: our chain must start from the same ones"},
	{kube, "pkg/controlplane/apiserver", "CreateConfig", "when admission is applied: our authorizer has to be in place before, our enforcer right after"},
	{kube, "pkg/controlplane/apiserver", "CreateAPIExtensionsConfig", "what is copied from the kube configuration into the extension server's"},
	{kube, "pkg/controlplane/apiserver", "CreateAggregatorConfig", "what is copied from the kube configuration into the aggregator's"},
	{kube, "pkg/controlplane/apiserver", "CreateAggregatorServer", "auto-registration of API services, also for our groups"},
	{kube, "pkg/controlplane", "CompletedConfig.New", "our assembly of the kube server: InstallAPIs, post-start hooks, controllers"},
	{kube, "pkg/controlplane", "CompletedConfig.StorageProviders", "the provider of authorization.k8s.io that we replace, and the list of the others"},
	{kube, "pkg/controlplane/apiserver", "Server.InstallAPIs", "GenericAPIServer.Authorizer has to be holder-aware before the APIs are installed"},
	{kube, "pkg/controlplane/apiserver", "completedConfig.New", "post-start hooks that our assembly expects to have been added"},
	{kube, "pkg/registry/authorization/rest", "RESTStorageProvider.NewRESTStorage", "our provider has to serve the whole group: a new review kind is missing from ours"},
	{kube, "pkg/registry/authorization/rest", "RESTStorageProvider.v1Storage", "our provider has to serve the whole group: a new review kind is missing from ours"},

	// RBAC's escalation check, in the place of which internal/apis/rbacstorage puts ours.
	{kube, "pkg/registry/rbac/rest", "RESTStorageProvider.storage", "the storages that rbacguard.go takes the check off: a new resource would be written unchecked"},
	{kube, "pkg/registry/rbac/role/policybased", "Storage.Create", "what our check of roles has to do: which verb, which rules"},
	{kube, "pkg/registry/rbac/role/policybased", "Storage.Update", "what our check of roles lets pass without looking"},
	{kube, "pkg/registry/rbac/clusterrole/policybased", "Storage.Update", "what our check of cluster roles has to do, aggregation rules included"},
	{kube, "pkg/registry/rbac/rolebinding/policybased", "Storage.Update", "what our check of role bindings has to do"},
	{kube, "pkg/registry/rbac/clusterrolebinding/policybased", "Storage.Update", "what our check of cluster role bindings has to do"},
	{kube, "pkg/registry/rbac", "RoleEscalationAuthorized", "for which name and namespace escalate is asked, in internal/apis/policyreview"},
	{kube, "pkg/registry/rbac", "BindingAuthorized", "for which role and namespace bind is asked, in internal/apis/policyreview"},

	// The filter chain around a request: only the aggregator's runs, ours wraps it.
	{apiserver, "pkg/server", "DefaultBuildHandlerChain", "the order of filters: ours must still be outside of audit and authorization"},
	{apiserver, "pkg/server", "completedConfig.New", "who captures the authorizer, the audit backend and the admission chain of a configuration"},
	{apiserver, "pkg/endpoints/filters", "withAuthorization", "what the gate sees at the filter and which audit annotations are written before us"},
	{apiserver, "pkg/endpoints/filters", "GetAuthorizerAttributes", "how the gate recognises the request's own check: the path is set here and nowhere else"},
	{apiserver, "pkg/endpoints/filters/impersonation", "WithImpersonation", "whether impersonation checks still differ from the request's own check"},
	{apiserver, "pkg/endpoints/filters/impersonation", "WithConstrainedImpersonation", "whether impersonation checks still differ from the request's own check, and their caches"},

	// Second checks inside of the handlers, after the body was read.
	{apiserver, "pkg/endpoints/handlers", "UpdateResource", "create-on-update: when create is asked and which slot of the hand-over it fills"},
	{apiserver, "pkg/endpoints/handlers", "withAuthorization", "the lazily made create check of update and patch"},
	{apiserver, "pkg/endpoints/handlers", "PatchResource", "apply that creates: when create is asked and which slot of the hand-over it fills"},
	{apiserver, "pkg/endpoints/handlers", "authorizeUnsafeDelete", "unsafe delete skips validation and must be refused to a conditional caller"},
	{apiserver, "pkg/endpoints/handlers", "DeleteResource", "when delete admission runs and with which object"},
	{apiserver, "pkg/endpoints/handlers", "DeleteCollection", "deletecollection is admitted per object"},
	{apiserver, "pkg/endpoints/handlers", "createHandler", "create admission: mutation before validation, the enforcer first of the validators"},
	{apiserver, "pkg/endpoints/handlers", "ConnectResource", "connect is admitted with the options object"},
	// Lists and watches that ask about single objects, as a selector of shards (RD-10).
	{apiserver, "pkg/storage", "SelectionPredicate.Matches", "lists ask the selector of shards about every object; it is skipped while its gate is off"},
	{apiserver, "pkg/storage", "SelectionPredicate.MatchesSharding", "the selector of shards is asked about whole objects"},
	{apiserver, "pkg/storage", "SelectionPredicate.Empty", "a list with a selector of shards is filtered"},
	{apiserver, "pkg/storage", "SelectionPredicate.SetShardInfoOnList", "what a list says of its shards, and readfilter takes out again"},
	{apiserver, "pkg/storage/cacher", "filterWithAttrsAndPrefixFunction", "watches of the cache ask the selector of shards about the current and the previous state"},
	{apiserver, "pkg/storage/cacher", "cacheWatcher.convertToWatchEvent", "which states of an event are asked about, and with which resourceVersion"},
	{apiserver, "pkg/storage/cacher", "CacheDelegator.Watch", "a cached store never watches etcd, where the previous state has the revision of the next one"},
	{apiserver, "pkg/storage/etcd3", "watchChan.prepareObjs", "the previous state in a watch of etcd has the revision of the event"},
	{apiserver, "pkg/registry/generic/registry", "Store.ListPredicate", "where the public parameter for shards is read"},
	{kube, "pkg/registry/core/pod/rest", "ensureAuthorizedForVerb", "exec, attach and port-forward over websockets ask for create a second time, with the request's own path"},

	// Admission: how plugins are chained and which exist.
	{apiserver, "pkg/admission", "chainAdmissionHandler.Validate", "the enforcer is the first of the chain and its refusal ends it"},
	{apiserver, "pkg/server/options", "AdmissionOptions.ApplyTo", "where the admission chain is set and with which authorizer its plugins are initialised"},
	{kube, "pkg/kubeapiserver/options", "var AllOrderedPlugins", "a new admission plugin: may it write after enforcement, does it authorize?"},
	{kube, "pkg/kubeapiserver/options", "DefaultOffAdmissionPlugins", "which plugins are on by default beside our enforcer"},

	// Audit: one evaluator and one backend, the event is reused.
	{apiserver, "pkg/endpoints/filters", "evaluatePolicyAndCreateAuditEvent", "the level is fixed once per request, from our evaluator's union"},
	{apiserver, "pkg/endpoints/filters", "WithAudit", "the event is reused between stages: our backend copies it"},
	{apiserver, "pkg/audit", "AuditContext.ProcessEventStage", "the event is reused between stages: our backend copies it"},
	{apiserver, "pkg/server/options", "AuditOptions.ApplyTo", "the static policy file and backends that our sinks are folded together with"},

	// Controllers that we start one by one.
	{kube, "cmd/kube-controller-manager/app", "newNamespaceController", "how internal/hosts/apiserver/controllers starts the namespace controller"},
	{kube, "cmd/kube-controller-manager/app", "newGarbageCollectorController", "how internal/hosts/apiserver/controllers starts the garbage collector"},
	{kube, "cmd/kube-controller-manager/app", "newServiceAccountController", "how internal/hosts/apiserver/controllers starts the service account controller"},
	{kube, "cmd/kube-controller-manager/app", "newServiceAccountTokenController", "how internal/hosts/apiserver/controllers starts the token controller"},
	{kube, "cmd/kube-controller-manager/app", "newRootCACertificatePublisherController", "how internal/hosts/apiserver/controllers starts the root CA publisher"},
	{kube, "cmd/kube-controller-manager/app", "newClusterRoleAggregationController", "how internal/hosts/apiserver/controllers starts cluster role aggregation"},
	{kube, "cmd/kube-controller-manager/app", "newResourceQuotaController", "how internal/hosts/apiserver/controllers starts the resource quota controller"},

	// Fields that the server sets from others when it creates an object (FP-16): what is made from a template is not
	// checked again.
	{kube, "pkg/registry/core/pod", "podStrategy.PrepareForCreate", derives + " of pods"},
	{kube, "pkg/registry/core/pod", "applyAppArmorVersionSkew", derives + " of pods: the annotation with an AppArmor profile"},
	{kube, "pkg/registry/core/pod", "mutatePodAffinity", derives + " of pods: matchLabelKeys"},
	{kube, "pkg/registry/core/pod", "mutateTopologySpreadConstraints", derives + " of pods: matchLabelKeys"},
	{kube, "pkg/api/pod", "DefaultPodLevelResources", derives + " of pods: requests and limits of the pod"},
	{kube, "pkg/registry/core/persistentvolumeclaim", "persistentvolumeclaimStrategy.PrepareForCreate", derives + " of claims"},
	{kube, "pkg/api/persistentvolumeclaim", "NormalizeDataSources", derives + " of claims: the data source"},
	{kube, "pkg/registry/batch/job", "jobStrategy.PrepareForCreate", derives + " of jobs"},
	{kube, "pkg/registry/apps/replicaset", "rsStrategy.PrepareForCreate", derives + " of replica sets"},
	{kube, "pkg/registry/apps/controllerrevision", "strategy.PrepareForCreate", derives + " of revisions"},
	{kube, "pkg/registry/resource/resourceclaim", "resourceclaimStrategy.PrepareForCreate", derives + " of resource claims"},
	{kube, "pkg/registry/core/endpoint", "endpointsStrategy.PrepareForCreate", derives + " of endpoints"},
	{kube, "pkg/registry/discovery/endpointslice", "endpointSliceStrategy.PrepareForCreate", derives + " of endpoint slices"},
	{kube, "pkg/apis/batch/v1", "SetDefaults_Job", derives + " of jobs: labels"},
	{kube, "pkg/apis/core/v1", "SetDefaults_ReplicationController", derives + " of replication controllers: labels"},
	{kube, "pkg/apis/core/v1", "SetDefaults_PodSpec", derives + " of pods: the service account"},
	{kube, "plugin/pkg/admission/priority", "Plugin.admitPod", derives + " of pods: the priority"},
	{kube, "plugin/pkg/admission/runtimeclass", "setOverhead", derives + " of pods: the overhead"},
	{kube, "plugin/pkg/admission/runtimeclass", "setScheduling", derives + " of pods: the node selector and tolerations"},
	{kube, "plugin/pkg/admission/serviceaccount", "Plugin.Admit", derives + " of pods: pull secrets"},

	// Fields that a controller overwrites because of a label or an annotation (NI-4).
	{kube, "pkg/controller/deployment", "DeploymentController.rollback", overwrites},
	{kube, "pkg/controller/deployment", "DeploymentController.rollbackToTemplate", overwrites},
	{kube, "pkg/registry/flowcontrol/ensurer", "shouldUpdateSpec", overwrites},
	{aggregator, "pkg/controllers/autoregister", "autoRegisterController.checkAPIService", overwrites},
	{kube, "pkg/controller/serviceaccount", "TokensController.generateTokenIfNeeded", overwrites},

	// What becomes of dependents, and of stored custom resources.
	{apiserver, "pkg/registry/generic/registry", "shouldOrphanDependents", "honoursOrphan in internal/request/enforce"},
	{apiserver, "pkg/registry/generic/registry", "deletionFinalizersForGarbageCollection", "honoursOrphan in internal/request/enforce"},
	{extensions, "pkg/apiserver/schema/defaulting", "Default", "refilled in internal/request/enforce: which changes of a schema change what rules see"},
	{extensions, "pkg/apiserver", "unstructuredSchemaCoercer.apply", "dropped and refilled in internal/request/enforce: what a schema drops"},
	{extensions, "pkg/registry/customresource", "customResourceStrategy.PrepareForUpdate", "switched in internal/request/enforce: which requests write the status"},

	// Requests that leave the process.
	{aggregator, "pkg/apiserver", "proxyHandler.ServeHTTP", "proxied requests run no admission here: conditional callers are refused before"},
	{extensions, "pkg/apiserver", "crdHandler.ServeHTTP", "custom resources use the authorizer and admission of the configuration"},
}

// What to look at in the tables of internal/engine/fieldperm.
const (
	derives    = "derived and spellings in internal/engine/fieldperm, for fields"
	overwrites = "overwrites in internal/engine/fieldperm: which fields a label or an annotation has overwritten"
)

// TestOriginals fails when upstream changes what our wiring follows.
func TestOriginals(t *testing.T) {
	want := map[string]string{}
	if !*update {
		for _, line := range readGolden(t, "originals.txt") {
			key, fingerprint, ok := cutLast(line)
			if !ok {
				t.Fatalf("testdata/originals.txt: malformed line %q, run `make golden`", line)
			}
			want[key] = fingerprint
		}
	}
	var lines []string
	for _, o := range originals {
		m := module(t, o.module)
		key := o.module + "/" + o.dir + "\t" + o.name
		got, place, err := declaration(filepath.Join(m.dir, o.dir), o.name)
		if err != nil {
			t.Errorf("%s/%s: %v in %s. Find what took its place, then re-check %s; update originals in test/drift/originals_test.go", o.module, o.dir, err, m.version, o.recheck)
			continue
		}
		lines = append(lines, key+"\t"+got)
		if *update {
			continue
		}
		switch old, known := want[key]; {
		case !known:
			t.Errorf("%s: %s is not in testdata/originals.txt, run `make golden`", o.dir, o.name)
		case old != got:
			t.Errorf("%s/%s: %s (%s) changed in %s. Re-check %s; then run `make golden`", o.module, o.dir, o.name, place, m.version, o.recheck)
		}
		delete(want, key)
	}
	for key := range want {
		t.Errorf("testdata/originals.txt has %q, which no test looks at any more: run `make golden`", strings.ReplaceAll(key, "\t", " "))
	}
	if *update && !t.Failed() {
		slices.Sort(lines)
		writeGolden(t, "originals.txt", fmt.Sprintf("Fingerprints of upstream declarations that Proviso follows; what for is said in originals_test.go.\n"+
			"Written by `make golden` for Kubernetes %s. Package, declaration, hash of its tokens.\n", module(t, kube).version), lines)
	}
}

func cutLast(line string) (before, after string, ok bool) {
	i := strings.LastIndexByte(line, '\t')
	if i < 0 {
		return "", "", false
	}
	return line[:i], line[i+1:], true
}

// TestFingerprint: layout and comments do not count, tokens do.
func TestFingerprint(t *testing.T) {
	base := hash([]byte("func f() {\n\treturn g(1, 2)\n}"))
	if got := hash([]byte("func f() { // why\n\n\treturn g(1,\n\t\t2,\n\t)\n}")); got == base {
		t.Error("a trailing comma is a token and must count")
	}
	if got := hash([]byte("func f() { // why\n\n\treturn g(1,\n\t\t2)\n}")); got != base {
		t.Error("comments and line breaks must not count")
	}
	if got := hash([]byte("func f() {\n\treturn g(1, 3)\n}")); got == base {
		t.Error("another literal must count")
	}
}
