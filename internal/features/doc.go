// Package features is the list of systems that every host holds, in order.
package features
