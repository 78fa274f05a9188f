import { expect, it } from 'vitest'
import { errorNumberOf, isPrismaConflict, refusedCommit, serverError } from '../../../src/mysql/errors.ts'

function prismaError(code: string, originalCode?: string): Error {
  const driverAdapterError = originalCode === undefined ? undefined : { cause: { originalCode, originalMessage: 'of the server' } }
  return Object.assign(new Error('Prisma error'), { code, clientVersion: '7.10.0', meta: { driverAdapterError } })
}

function adapterError(originalCode: string | undefined): Error {
  return Object.assign(new Error('adapter error', { cause: { originalCode, kind: 'mysql' } }), { name: 'DriverAdapterError' })
}

it('finds the server error behind a Prisma error', () => {
  const error = prismaError('P2010', '1146')
  expect(serverError(error)).toMatchObject({ message: 'of the server', errno: 1146, cause: error })
  expect(errorNumberOf(serverError(adapterError('1305')))).toBe(1305)
  expect(serverError('text')).toBe('text')
})

it('does not mistake an error of Prisma or the connector for a rejected COMMIT', () => {
  // The connector has its own error number for a socket that was closed unexpectedly.
  for (const error of [prismaError('P2028'), prismaError('P1017'), adapterError(undefined), adapterError('45009')]) {
    expect(refusedCommit(serverError(error))).toBe(false)
  }
  expect(refusedCommit(serverError(adapterError('1213')))).toBe(true)
})

it('recognises conflicts, however they are wrapped', () => {
  for (const conflict of [prismaError('P2034'), prismaError('P2010', '1213'), adapterError('1020')]) {
    expect(isPrismaConflict(conflict)).toBe(true)
    expect(isPrismaConflict(new Error('wrapped', { cause: conflict }))).toBe(true)
    expect(isPrismaConflict(serverError(conflict))).toBe(true)
  }
  for (const other of [prismaError('P2002', '1062'), prismaError('P2028'), new Error('other'), undefined]) {
    expect(isPrismaConflict(other)).toBe(false)
  }
})
