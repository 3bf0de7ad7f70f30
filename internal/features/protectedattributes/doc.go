// Package protectedattributes is the system for protected attributes: labels and annotations that only users with a
// right to them may set.
package protectedattributes
