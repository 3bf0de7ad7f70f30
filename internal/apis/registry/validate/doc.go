// Package validate says what is wrong with an object of Proviso's API groups, field by field, with a remedy. It is
// pure: what takes the engine (expressions, field paths) or other objects (does the role exist) is checked by the
// registry.
package validate
