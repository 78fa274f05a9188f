import { quoteLiteral } from './quote-literal.ts'

/**
 * The number of the advisory lock that writers of a key hold until they commit. `destination` and `key` are expressions. It is made of a text that
 * nobody else uses and of the table itself, which is the same by whatever name it is found.
 */
export function keyLockSql(table: string, destination: string, key: string): string {
  return `hashtextextended('ackord ' || ${destination} || chr(10) || ${key}, ${quoteLiteral(table)}::regclass::oid::bigint)`
}
