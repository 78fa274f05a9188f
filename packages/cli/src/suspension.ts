/** A resource that has to be restored while the process is stopped, such as the screen of a terminal. Both functions take effect before they return. */
export interface Suspendable {
  suspend(): void
  /** Also called without `suspend()`, after a stop that nothing announces (SIGSTOP). Idempotent. */
  resume(): void
}

/** Connects a view to Ctrl-Z. Returns a function that ends it. */
export type Suspension = (view: Suspendable) => () => void

/** For the terminal of this process. */
export const processSuspension: Suspension = (view) => {
  const resume = () => {
    view.resume()
    // The terminal reports a new size to the job in the foreground only. Node asks for the size at this signal.
    process.kill(process.pid, 'SIGWINCH')
  }
  const stop = () => {
    view.suspend()
    process.off('SIGTSTP', stop)
    // Stops here, with the default action, as the shell expects it of a job; and continues here. Without job control the signal has no effect.
    process.kill(process.pid, 'SIGTSTP')
    process.on('SIGTSTP', stop)
    resume()
  }
  process.on('SIGTSTP', stop)
  process.on('SIGCONT', resume)
  return () => {
    process.off('SIGTSTP', stop)
    process.off('SIGCONT', resume)
  }
}
