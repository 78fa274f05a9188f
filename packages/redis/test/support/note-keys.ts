import type { NoteKind } from '@ackord/outbox'

const kinds: readonly NoteKind[] = ['pause', 'relay', 'rate', 'audit']

/** The keys of the notes of an outbox, to be deleted at the end. */
export function noteKeys(keyOf: (...parts: readonly string[]) => string): readonly string[] {
  return kinds.flatMap((kind) => [keyOf('notes', kind), keyOf('note-times', kind)])
}
