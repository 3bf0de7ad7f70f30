// Package readfilter shows readers what they may see, and nothing else (RD). It stands in two places of a request. As a
// filter behind authorization it replaces the selectors of a list or watch by narrower ones. Around the storage it
// decides a get on the very object that was read, checks that a list is as narrow as it must be, has the storage ask
// about each object where selectors cannot say it, and ends watches whose caller may see something else by now. An
// answer that neither has decided does not leave the server.
package readfilter
