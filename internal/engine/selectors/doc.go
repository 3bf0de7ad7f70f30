// Package selectors represents what selectors can express: for each label and each field, which values an object may
// have. Conditions of readers are converted to this form, joined, and written as a label selector and a field selector
// (RD-2).
package selectors
