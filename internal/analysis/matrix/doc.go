// Package matrix shows who may do what, subject by subject and resource by resource (TR-11): yes, under a condition,
// no, or denied. The engine that decides requests answers every cell.
package matrix
