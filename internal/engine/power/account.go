package power

import "iter"

// Means is how a right leads to acting as a service account.
type Means uint8

const (
	// NoMeans is of a right that does not lead there.
	NoMeans Means = iota
	// Impersonate needs no token.
	Impersonate
	// Mint asks the API for a token.
	Mint
	// ReadSecret reads a secret that holds a token. To write such a secret adds nothing: a controller fills it in, and
	// to get the token takes reading it.
	ReadSecret
	// RunPod makes a pod that runs as the account.
	RunPod
	// EnterPod runs something in a pod that runs as the account.
	EnterPod
)

// account marks a row whose right leads to the service accounts of its namespace.
func (r Row) account(m Means) Row {
	r.Account = m
	return r
}

// Step is a request, in the namespace of a service account, that amounts to acting as the account.
type Step struct {
	Means
	// Resource may have a subresource: pods/exec.
	Verb, Group, Resource string
}

// Named reports whether the request names the account. Rights to it may be limited to that name.
func (s Step) Named() bool { return s.Means == Impersonate || s.Means == Mint }

// AccountSteps returns the steps to the service accounts of a namespace: the table *Acting as a service account* of the
// threat model, one request at a time.
func AccountSteps() iter.Seq[Step] {
	return func(yield func(Step) bool) {
		for _, r := range rows {
			if r.Account == NoMeans {
				continue
			}
			for _, resource := range r.Resources {
				for _, verb := range r.Verbs {
					if !yield(Step{r.Account, verb, r.Group, resource}) {
						return
					}
				}
			}
		}
	}
}
