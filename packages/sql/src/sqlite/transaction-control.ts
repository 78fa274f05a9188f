import { type AdmitStatement, admitter, rollsBackTo, traitsReader } from '../contract/statement-traits.ts'

const traitsOf = traitsReader({
  syntax: {
    lineEnds: /\n/g,
    brackets: true,
    // A trigger holds statements of its own.
    body: { of: ([first, ...more]) => first === 'CREATE' && more.slice(0, 2).includes('TRIGGER'), until: 'END statement' },
  },
  isControl: ([first = '', ...more]) =>
    first === 'ROLLBACK' ? !rollsBackTo(more) : first === 'BEGIN' || first === 'COMMIT' || first === 'END',
})

/** Throws at a text in which a statement would begin or end the transaction under our hands; savepoints are the handler's own business. */
export const refuseControl: AdmitStatement = admitter(
  traitsOf,
  'A statement would begin or end the transaction that the middleware owns. Throw to roll it back; use SAVEPOINT for a part of it.',
)

/** Whether a text makes, releases or rolls back to a savepoint. */
export function isSavepoint(sql: string): boolean {
  return traitsOf(sql).isSavepoint
}
