// Package editdistance tells how far one word is from another, for messages that say what was probably meant.
package editdistance
