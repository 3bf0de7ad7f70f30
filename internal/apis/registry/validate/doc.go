// Package validate validates objects of Proviso's API groups, field by field; each error suggests a remedy. It is pure:
// the registry checks what needs the engine (expressions, field paths) or other objects (does the role exist).
package validate
