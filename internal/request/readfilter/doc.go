// Package readfilter shows readers only what they may see (RD). It runs at two places. As a filter behind
// authorization, it replaces the selectors of a list or watch with narrower ones. Around the storage, it decides a get
// on the very object that was read, checks that a list is as narrow as it must be, makes the storage ask about each
// object where selectors cannot express the condition, and ends a watch when what its caller may see has changed,
// hidden fields included. A response that neither place has decided does not leave the server.
package readfilter
