package protectedattr

// kubeSystemPrefix is the prefix of the service accounts that Kubernetes' own controllers use.
const kubeSystemPrefix = "system:serviceaccount:kube-system:"

// Identities under which Kubernetes runs many controllers at once, and its scheduler.
const (
	controllerManager = "system:kube-controller-manager"
	scheduler         = "system:kube-scheduler"
)

// copiers are Kubernetes' controllers that create objects from something that was checked when it was written: a
// template, or the object whose labels they copy (PA-6, PA-13). They are exempt by identity, never by what an object
// says about itself: ownerReferences can be forged. Other service accounts of kube-system, such as those of add-ons,
// are not exempt: they can be bound to a role, or be exempted by a flag.
var copiers = map[string][]groupResource{
	kubeSystemPrefix + "deployment-controller":             {{"apps", "replicasets"}},
	kubeSystemPrefix + "replicaset-controller":             {{"", "pods"}},
	kubeSystemPrefix + "replication-controller":            {{"", "pods"}},
	kubeSystemPrefix + "daemon-set-controller":             {{"", "pods"}, {"apps", "controllerrevisions"}},
	kubeSystemPrefix + "statefulset-controller":            {{"", "pods"}, {"", "persistentvolumeclaims"}, {"apps", "controllerrevisions"}},
	kubeSystemPrefix + "job-controller":                    {{"", "pods"}},
	kubeSystemPrefix + "cronjob-controller":                {{"batch", "jobs"}},
	kubeSystemPrefix + "ephemeral-volume-controller":       {{"", "persistentvolumeclaims"}},
	kubeSystemPrefix + "resource-claim-controller":         {{"resource.k8s.io", "resourceclaims"}},
	kubeSystemPrefix + "endpoint-controller":               {{"", "endpoints"}},
	kubeSystemPrefix + "endpointslice-controller":          {{"discovery.k8s.io", "endpointslices"}},
	kubeSystemPrefix + "endpointslicemirroring-controller": {{"discovery.k8s.io", "endpointslices"}},
	// The scheduler only adds the node to a pod.
	scheduler: {{"", "bindings"}, {"", "pods/binding"}},
}

// Copies reports whether a caller creates objects of a resource, which may be a subresource, from something that was
// checked already.
func Copies(user, group, resource, subresource string) bool {
	if subresource != "" {
		resource += "/" + subresource
	}
	made := groupResource{group, resource}
	makes := func(all []groupResource) bool {
		for _, r := range all {
			if r == made {
				return true
			}
		}
		return false
	}
	if user != controllerManager {
		return makes(copiers[user])
	}
	for name, all := range copiers {
		if name != scheduler && makes(all) {
			return true
		}
	}
	return false
}

// IsController reports whether a caller is one of those controllers, or the scheduler.
func IsController(user string) bool { return user == controllerManager || copiers[user] != nil }
