// Package kept keeps the last field permissions that the schema of each custom resource declared, in etcd and by the
// uid of its definition (FP-18). While the feature gate is off, the server does not see what a write does to them.
//
// Place in the request path: admission records what a definition is about to declare before the definition is stored. A
// stored declaration without a record was written while the gate was off. A definition whose declaration cannot be
// recorded is not stored.
package kept
