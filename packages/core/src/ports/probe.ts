/**
 * Called at each named point between two steps; a test may count, wait or kill the process there. It must not reject: a simulated crash is a promise
 * that never settles.
 */
export type ProbeHook = (point: string) => void | Promise<void>

let installed: ProbeHook | undefined

/**
 * Marks a crash point. Without a hook it costs a call that returns `undefined`; callers write `const paused = probe('…'); if (paused !== undefined)
 * await paused`, so that no promise is created.
 */
export function probe(point: string): Promise<void> | undefined {
  return installed === undefined ? undefined : (installed(point) ?? undefined)
}

/** Installs a hook for tests and returns a function that removes it. One hook at a time. */
export function installProbe(hook: ProbeHook): () => void {
  const before = installed
  installed = hook
  return () => {
    installed = before
  }
}
