// Package protectedattributes is protected attributes: labels and annotations that only those may set who hold a right
// to them.
package protectedattributes
