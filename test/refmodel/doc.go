// Package refmodel decides Policy and RBAC the slow and obvious way: it walks every binding and reads every rule as the
// specification words it. It shares no code with the index, so that tests can hold the two against each other, and it
// draws the small random worlds for that. Nothing of the product uses it.
package refmodel
