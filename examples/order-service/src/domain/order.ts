/** The domain. It knows no message, no broker and no store. */
export interface Order {
  readonly id: string
  readonly customer: string
  readonly total: number
}

/** The port behind which orders are kept. */
export interface Orders {
  save(order: Order): Promise<void>
}
