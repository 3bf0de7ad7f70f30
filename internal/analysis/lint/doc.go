// Package lint finds what is suspicious in policy: rules that do nothing, names that nobody knows, conditions that
// always or never hold or that can fail, grants that equal everything (TR-9). It asks the engine that decides requests,
// and says nothing where that has no certain answer.
package lint
