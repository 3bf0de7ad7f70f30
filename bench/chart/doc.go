// Package chart draws cost against size as SVG, both axes logarithmic: a straight line is a power, a level one does not
// grow.
package chart
