// Package terminal prints text that other people chose: names of users and objects, groups, descriptions, messages. A
// name cannot begin a line, move the cursor or run into the next column.
package terminal
