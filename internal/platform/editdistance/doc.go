// Package editdistance measures how far one word is from another, for messages that suggest what was probably meant.
package editdistance
