// Package lineup is the list of systems that every host holds, in order.
package lineup
