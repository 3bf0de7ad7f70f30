// Package selectors is what selectors can say: for each label and each field, which values an object may have.
// Conditions of readers are turned into it, joined, and written as a label selector and a field selector (RD-2).
package selectors
