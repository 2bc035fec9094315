// Package contenders has processes contend for locks, and checks their holds for two holders at
// once.
//
// A test binary calls [Main] first, and runs itself again: [Start] begins a process for each task.
// The process writes a line for each hold to its parent. All processes of the machine share the
// clock that times the holds, so exclusion is a comparison of intervals ([Overlaps]), and so is the
// order of fences ([Disorder]).
package contenders
