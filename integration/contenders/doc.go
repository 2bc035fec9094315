// Package contenders lets processes contend for locks, and looks at what they held for two holders at once.
//
// A test binary that calls [Main] first thing runs itself again: [Start] begins a process for each thing that one is to be told, and
// the process writes a line for each hold to its parent. Holds are timed by one clock that all processes of the machine share, so
// that exclusion is a plain comparison of intervals ([Overlaps]), and so is the order of fences ([Disorder]).
package contenders
