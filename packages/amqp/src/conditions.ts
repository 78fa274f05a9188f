/** An error that a broker has answered with. */
export interface ConditionError extends Error {
  /** AMQP's name of the error, such as `amqp:not-found`. */
  readonly condition: string | undefined
}

/** The error of a link, a session or a connection, as an `Error`. `text` is the message if there is none. */
export function toConditionError(error: unknown, text: string): ConditionError {
  const { condition, description } = fieldsOf(error)
  const known = typeof condition === 'string' && condition !== '' ? condition : undefined
  const said = typeof description === 'string' && description !== '' ? description : undefined
  const own = error instanceof Error && error.message !== '' ? error.message : undefined
  const message = said ?? own ?? text
  const options = error instanceof Error ? { cause: error } : {}
  return Object.assign(new Error(known === undefined ? message : `${message} (${known})`, options), { condition: known })
}

export function conditionOf(error: unknown): string | undefined {
  const { condition } = fieldsOf(error)
  return typeof condition === 'string' ? condition : undefined
}

/** The error of the outcome `rejected`; `undefined` for other outcomes. */
export function errorOf(outcome: unknown): unknown {
  const { error } = (outcome ?? {}) as { readonly error?: unknown }
  return error ?? undefined
}

function fieldsOf(error: unknown): { readonly condition?: unknown; readonly description?: unknown } {
  return typeof error === 'object' && error !== null ? error : {}
}
