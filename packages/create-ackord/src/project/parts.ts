import type { BrokerPiece, FrameworkPiece, Piece, Setting, StorePiece } from '../pieces/piece.ts'

/** The pieces of one project. */
export interface Parts {
  readonly name: string
  readonly store: StorePiece
  readonly broker: BrokerPiece
  readonly framework: FrameworkPiece
}

export function piecesOf({ store, broker, framework }: Parts): readonly Piece[] {
  return [store, broker, framework]
}

export function settingsOf(parts: Parts): readonly Setting[] {
  return piecesOf(parts).flatMap(({ settings }) => settings)
}

/** By name; two pieces on the same server have it once. */
export function serversOf(parts: Parts): Readonly<Record<string, string>> {
  return Object.assign({}, ...piecesOf(parts).map(({ servers }) => servers ?? {}))
}
