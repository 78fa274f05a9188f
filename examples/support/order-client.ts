/** Sends an order to a service of the examples and returns the status of the answer. */
export async function postOrder(url: string, order: object): Promise<number> {
  const response = await fetch(`${url}/orders`, {
    method: 'POST',
    headers: { 'content-type': 'application/json' },
    body: JSON.stringify(order),
  })
  await response.arrayBuffer()
  return response.status
}
