// Package text knows expressions as they are written: their macros before they are expanded, values as literals, and
// how to print an expression so that it parses to the same one. It knows nothing of requests and objects.
package text
