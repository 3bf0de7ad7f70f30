// Package page holds the files of the access explorer's page exactly as the browser gets them: there is no build step.
package page
