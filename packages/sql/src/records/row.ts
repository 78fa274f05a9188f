/** A row of a result, by column name. */
export type Row = Readonly<Record<string, unknown>>

/** Whether records with the same ordering key are published in the order of their commits. */
export type Order = 'none' | 'perKey'
