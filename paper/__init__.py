"""The paper, reproduced: every figure, table and claim, from small definitions to one page."""
