/** Why a call failed, as far as its error says. */
export interface CallFailure {
  /**
   * - `refusesWrites`: the server accepts no writes at the moment: out of memory, read only, or without the replicas that it needs
   * - `server`: the server answered with another error
   * - `process`: the call failed in this process, and would fail again
   * - `unanswered`: there was no answer, or no connection
   */
  readonly kind: 'refusesWrites' | 'server' | 'process' | 'unanswered'
  readonly text: string
}

/** The server's errors begin with a word in capitals. A cluster client that gives up puts the last one behind words of its own. */
const serverError = /(?:^|Last error: (?:\w+: )?)-?([A-Z][A-Z0-9]+ .*)$/s

export function callFailureOf(error: unknown): CallFailure {
  if (!(error instanceof Error)) return { kind: 'unanswered', text: String(error) }
  const [, text] = serverError.exec(error.message) ?? []
  if (text !== undefined) return { kind: isRefusalOfWrites(text) ? 'refusesWrites' : 'server', text }
  const ours = error instanceof RangeError || error instanceof TypeError
  return { kind: ours ? 'process' : 'unanswered', text: error.message }
}

/** Whether this is the answer of a server that accepts no writes at all. */
export function isRefusalOfWrites(text: string): boolean {
  return /^-?(?:OOM|READONLY|NOREPLICAS|MISCONF)\b/.test(text)
}
