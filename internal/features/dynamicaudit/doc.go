// Package dynamicaudit is dynamic audit: sinks and classes as objects of the API, and a stream of live events.
package dynamicaudit
