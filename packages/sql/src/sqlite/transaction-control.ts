import { type AdmitStatement, admitter, rollsBackTo, traitsReader } from '../contract/statement-traits.ts'

const traitsOf = traitsReader({
  syntax: {
    lineEnds: /\n/g,
    brackets: true,
    // A trigger contains statements of its own.
    body: { of: ([first, ...more]) => first === 'CREATE' && more.slice(0, 2).includes('TRIGGER'), until: 'END statement' },
  },
  isControl: ([first = '', ...more]) =>
    first === 'ROLLBACK' ? !rollsBackTo(more) : first === 'BEGIN' || first === 'COMMIT' || first === 'END',
})

/** Throws for a statement that would begin or end the transaction behind our back; handlers may use savepoints. */
export const refuseControl: AdmitStatement = admitter(
  traitsOf,
  'A statement would begin or end the transaction that the middleware owns. Throw to roll it back; use SAVEPOINT for a part of it.',
)

/** Whether a text creates, releases or rolls back to a savepoint. */
export function isSavepoint(sql: string): boolean {
  return traitsOf(sql).isSavepoint
}
