// Package matrix tells who may do what, subject by subject and resource by resource (TR-11): yes, under a condition,
// no, or denied. It asks the engine that decides requests about every cell.
package matrix
