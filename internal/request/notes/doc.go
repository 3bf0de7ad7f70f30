// Package notes carries what one stage of admission finds out and a later stage needs, inside the context of one
// request.
//
// Place in the request path: the outermost filter puts empty Notes into the context. Mutating admission and the
// enforcer write them; validating admission behind the enforcer and the filters around the handler read them. No
// decision is in them: that is what package handoff carries.
package notes
