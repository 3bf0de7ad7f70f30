// Package dynamicaudit is the system for dynamic audit: sinks and classes as API objects, and a stream of live events.
package dynamicaudit
