package main

import (
	"fmt"
	"math"
	"strconv"
	"time"
)

// axis is the vertical axis of a panel. It begins at 0.
type axis struct {
	step  float64
	steps int
	unit  string
	scale float64 // of the unit
}

// end returns the value at the end of the axis.
func (a axis) end() float64 { return a.step * float64(a.steps) }

// newAxis returns an axis for values up to largest. It has at most five steps, of 1, 2 or 5 times a
// power of ten.
func newAxis(unit string, largest float64) axis {
	if !(largest > 0) || math.IsInf(largest, 0) {
		largest = 1
	}
	a := axis{scale: 1}
	power := math.Pow(10, math.Floor(math.Log10(largest/5)))
	for _, digit := range []float64{1, 2, 5, 10} {
		a.step = digit * power
		a.steps = int(math.Ceil(largest/a.step - 1e-9))
		if a.steps <= 5 {
			break
		}
	}
	switch {
	case unit == "ops":
		a.unit = " /s"
	case unit == "s" && a.end() < 1e-3:
		a.unit, a.scale = " µs", 1e6
	case unit == "s" && a.end() < 1:
		a.unit, a.scale = " ms", 1e3
	case unit == "s":
		a.unit = " s"
	}
	return a
}

// label returns the label of a step.
func (a axis) label(step int) string {
	if step == 0 {
		return "0"
	}
	return strconv.FormatFloat(float64(step)*a.step*a.scale, 'g', 4, 64) + a.unit
}

// times returns the marks of the time axis: the beginning and at most five more.
func times(span time.Duration) (marks []time.Duration) {
	steps := []time.Duration{
		time.Second, 2 * time.Second, 5 * time.Second, 10 * time.Second, 20 * time.Second, 30 * time.Second,
		time.Minute, 2 * time.Minute, 5 * time.Minute,
	}
	step := steps[0]
	for _, s := range steps[1:] {
		if span/step > 5 {
			step = s
		}
	}
	for at := time.Duration(0); at <= span; at += step {
		marks = append(marks, at)
	}
	return marks
}

// clockOf returns minutes and seconds.
func clockOf(at time.Duration) string {
	return fmt.Sprintf("%d:%02d", int(at.Minutes()), int(at.Seconds())%60)
}
