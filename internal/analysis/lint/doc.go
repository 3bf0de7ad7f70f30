// Package lint finds what is suspicious in policy: rules without effect, unknown names, conditions that always or never
// hold or that can fail, grants that amount to full access (TR-9). It asks the engine that decides requests, and
// reports nothing where the engine has no certain answer.
package lint
