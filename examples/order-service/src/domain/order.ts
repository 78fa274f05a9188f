/** The domain. It depends on no message, broker or store. */
export interface Order {
  readonly id: string
  readonly customer: string
  readonly total: number
}

/** The port for storing orders. */
export interface Orders {
  save(order: Order): Promise<void>
}
