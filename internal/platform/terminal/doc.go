// Package terminal prints text that others have chosen: names of users and objects, groups, descriptions, messages. A
// name cannot begin a line, move the cursor or run into the next column.
package terminal
