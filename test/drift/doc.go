// Package drift tells, as unit tests, what of upstream Proviso relies on without the compiler noticing: functions whose
// sequence our wiring follows, and places that ask an authorizer. An upgrade of Kubernetes that moves one of them fails
// here with its name and with what to look at. After looking, `make golden` accepts the new state.
package drift
