// Package kept keeps the last field permissions that the schema of each custom resource declared, in etcd and by the
// uid of its definition (FP-18). Without the feature gate the server does not see what a write does to them.
//
// Place in the request path: admission enters what a definition is about to declare before the definition is stored.
// What is stored and was never entered was written while the gate was off. If it cannot be entered, it is not stored.
package kept
